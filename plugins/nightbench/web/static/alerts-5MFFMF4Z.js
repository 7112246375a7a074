import{a,b,c}from"./chunk-XCZLONVZ.js";import"./chunk-Q6ZZKFLW.js";import"./chunk-BAGOWIOI.js";export{a as AlertState,c as Alerts,b as Confirmation};
