import{a,b}from"./chunk-7Q5ZPSUQ.js";import"./chunk-FJAGZE5Q.js";import"./chunk-FXM3GXJ6.js";import"./chunk-CBAF223J.js";import"./chunk-VQBWX3GC.js";export{a as Plot,b as SeriesPage};
