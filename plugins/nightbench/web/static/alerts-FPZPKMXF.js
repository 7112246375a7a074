import{a,b,c}from"./chunk-OVUZKR2O.js";import"./chunk-OJP37C6J.js";import"./chunk-EPXUKFRX.js";export{a as AlertState,c as Alerts,b as Confirmation};
