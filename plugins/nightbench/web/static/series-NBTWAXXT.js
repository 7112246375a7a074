import{a,b}from"./chunk-RDHJD5NY.js";import"./chunk-JCZRT4JJ.js";import"./chunk-EEOTOMG7.js";import"./chunk-ZKPL6QWP.js";import"./chunk-52EROWXA.js";export{a as Plot,b as SeriesPage};
