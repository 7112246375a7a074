import{a,b}from"./chunk-TX4ZC544.js";import"./chunk-VV3CFVER.js";import"./chunk-WN5F7W2P.js";import"./chunk-QXVSFJ5V.js";import"./chunk-A5XZPECA.js";export{a as Plot,b as SeriesPage};
