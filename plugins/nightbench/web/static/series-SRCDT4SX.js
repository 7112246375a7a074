import{a,b}from"./chunk-OVW32LKX.js";import"./chunk-T7ASUGTG.js";import"./chunk-S4646PJX.js";import"./chunk-QXVSFJ5V.js";import"./chunk-A5XZPECA.js";export{a as Plot,b as SeriesPage};
