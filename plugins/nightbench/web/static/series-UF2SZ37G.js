import{a,b}from"./chunk-LUNV4D5B.js";import"./chunk-U3IFIUBL.js";import"./chunk-SEHJDYOM.js";import"./chunk-IPDVGAIU.js";export{a as Plot,b as SeriesPage};
