import{a,b}from"./chunk-XCBABNLA.js";import"./chunk-DXZ5W4PF.js";import"./chunk-2RNCNIQL.js";import"./chunk-GJCLPFXO.js";import"./chunk-724KARUL.js";export{a as Plot,b as SeriesPage};
