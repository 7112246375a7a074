import{a,b}from"./chunk-D2LYPPT4.js";import"./chunk-VV3CFVER.js";import"./chunk-S4646PJX.js";import"./chunk-QXVSFJ5V.js";import"./chunk-A5XZPECA.js";export{a as Plot,b as SeriesPage};
