import{a,b}from"./chunk-ICM652P2.js";import"./chunk-VUQAR7WV.js";import"./chunk-CC5333RQ.js";import"./chunk-AU3RKTLY.js";import"./chunk-Q42D4LFG.js";export{a as Plot,b as SeriesPage};
