import{a,b}from"./chunk-ITOURKWP.js";import"./chunk-OYNIYJBL.js";import"./chunk-UOXHPPUR.js";import"./chunk-3FPZKUVS.js";export{a as Plot,b as SeriesPage};
