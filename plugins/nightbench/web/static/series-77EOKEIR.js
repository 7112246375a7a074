import{a,b}from"./chunk-2N2D7ICR.js";import"./chunk-2OTGLPKR.js";import"./chunk-62QDCYMA.js";import"./chunk-PPJ266CY.js";import"./chunk-L2KFR2HK.js";export{a as Plot,b as SeriesPage};
