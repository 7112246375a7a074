import{a,b}from"./chunk-ZSVIKGKW.js";import"./chunk-633O5JBT.js";import"./chunk-5BPZM6T5.js";import"./chunk-LT2JQRUU.js";import"./chunk-4VTZVNYN.js";export{a as Plot,b as SeriesPage};
