import{a,b}from"./chunk-YXOURULT.js";import"./chunk-PG63YAIP.js";import"./chunk-CC5333RQ.js";import"./chunk-LSN7VNWK.js";import"./chunk-Q42D4LFG.js";export{a as Plot,b as SeriesPage};
