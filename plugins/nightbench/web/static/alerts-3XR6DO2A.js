import{a,b,c}from"./chunk-VE4QRX76.js";import"./chunk-SEHJDYOM.js";import"./chunk-IPDVGAIU.js";export{a as AlertState,c as Alerts,b as Confirmation};
