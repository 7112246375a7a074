import{a,b}from"./chunk-RV47IBA3.js";import"./chunk-TS3YSLM7.js";import"./chunk-QGBAZCVU.js";import"./chunk-JPSXZZ5V.js";import"./chunk-PMVNIH5V.js";export{a as Plot,b as SeriesPage};
