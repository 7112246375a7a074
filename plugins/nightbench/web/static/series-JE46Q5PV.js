import{a,b}from"./chunk-G2RW7SBP.js";import"./chunk-PQIAC637.js";import"./chunk-OJP37C6J.js";import"./chunk-EPXUKFRX.js";export{a as Plot,b as SeriesPage};
