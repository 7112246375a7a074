import{a,b}from"./chunk-V4245JCU.js";import"./chunk-OLQSTZ2I.js";import"./chunk-ZX4377SS.js";import"./chunk-WAGUJKGB.js";import"./chunk-WDA3PNGV.js";export{a as Plot,b as SeriesPage};
