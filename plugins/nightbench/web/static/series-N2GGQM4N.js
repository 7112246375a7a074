import{a,b}from"./chunk-6LT5SR2Q.js";import"./chunk-WWB5K2Z3.js";import"./chunk-CC5333RQ.js";import"./chunk-GDVNZDEJ.js";import"./chunk-Q42D4LFG.js";export{a as Plot,b as SeriesPage};
