import{a,b,c}from"./chunk-P7QYTHRH.js";import"./chunk-FGB5UMAU.js";import"./chunk-VHJLJTLH.js";export{a as AlertState,c as Alerts,b as Confirmation};
