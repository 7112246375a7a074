import{a,b}from"./chunk-KJCX75LQ.js";import"./chunk-N7S7BNEF.js";import"./chunk-Q6ZZKFLW.js";import"./chunk-BAGOWIOI.js";export{a as Plot,b as SeriesPage};
