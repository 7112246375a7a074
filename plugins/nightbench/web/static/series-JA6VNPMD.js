import{a,b}from"./chunk-ZTBFOSU6.js";import"./chunk-OON57PWS.js";import"./chunk-PQZJMZIP.js";import"./chunk-GJCLPFXO.js";import"./chunk-724KARUL.js";export{a as Plot,b as SeriesPage};
