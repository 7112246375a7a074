import{a,b}from"./chunk-EKJ5PDF6.js";import"./chunk-633O5JBT.js";import"./chunk-OIOZ737E.js";import"./chunk-LT2JQRUU.js";import"./chunk-4VTZVNYN.js";export{a as Plot,b as SeriesPage};
