import{a,b}from"./chunk-Y44FX6L5.js";import"./chunk-5LPPQ2B7.js";import"./chunk-H3QJKJXD.js";import"./chunk-K3U4EQWM.js";import"./chunk-FWW7RHML.js";export{a as Plot,b as SeriesPage};
