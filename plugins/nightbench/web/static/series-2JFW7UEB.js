import{a,b}from"./chunk-7AY2AD36.js";import"./chunk-GZFCZBN2.js";import"./chunk-FGB5UMAU.js";import"./chunk-VHJLJTLH.js";export{a as Plot,b as SeriesPage};
