import{a,b}from"./chunk-HZYBLHTI.js";import"./chunk-JFFDTGMW.js";import"./chunk-7X5R7E53.js";import"./chunk-BXA7UHHU.js";import"./chunk-5B4VC5XQ.js";export{a as Plot,b as SeriesPage};
