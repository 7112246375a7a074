import{a,b}from"./chunk-F7BITRXA.js";import"./chunk-633O5JBT.js";import"./chunk-OIOZ737E.js";import"./chunk-LT2JQRUU.js";import"./chunk-4VTZVNYN.js";export{a as Plot,b as SeriesPage};
