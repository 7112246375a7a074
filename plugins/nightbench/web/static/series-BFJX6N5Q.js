import{a,b}from"./chunk-M6FKW2I6.js";import"./chunk-XD54GZ5S.js";import"./chunk-62QDCYMA.js";import"./chunk-PPJ266CY.js";import"./chunk-L2KFR2HK.js";export{a as Plot,b as SeriesPage};
