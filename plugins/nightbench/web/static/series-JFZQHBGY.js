import{a,b}from"./chunk-ZQVTUMKC.js";import"./chunk-EOCXICQW.js";import"./chunk-CC5333RQ.js";import"./chunk-GDVNZDEJ.js";import"./chunk-Q42D4LFG.js";export{a as Plot,b as SeriesPage};
