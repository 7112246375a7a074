import{a,b}from"./chunk-3ZLJ6FUS.js";import"./chunk-ISGYSFUJ.js";import"./chunk-S4646PJX.js";import"./chunk-QXVSFJ5V.js";import"./chunk-A5XZPECA.js";export{a as Plot,b as SeriesPage};
