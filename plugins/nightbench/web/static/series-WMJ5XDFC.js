import{a,b}from"./chunk-BYSJ4UDM.js";import"./chunk-PG63YAIP.js";import"./chunk-CC5333RQ.js";import"./chunk-AU3RKTLY.js";import"./chunk-Q42D4LFG.js";export{a as Plot,b as SeriesPage};
