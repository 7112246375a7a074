import{a,b}from"./chunk-536TBB3A.js";import"./chunk-U6E2REKJ.js";import"./chunk-S4646PJX.js";import"./chunk-QXVSFJ5V.js";import"./chunk-A5XZPECA.js";export{a as Plot,b as SeriesPage};
