import{a,b}from"./chunk-GXNGO4LU.js";import"./chunk-DXZ5W4PF.js";import"./chunk-PQZJMZIP.js";import"./chunk-GJCLPFXO.js";import"./chunk-724KARUL.js";export{a as Plot,b as SeriesPage};
