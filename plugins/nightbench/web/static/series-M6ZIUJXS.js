import{a,b}from"./chunk-HR4LOJX4.js";import"./chunk-NM62LKIM.js";import"./chunk-MWUU3OML.js";import"./chunk-IO7EYMW2.js";import"./chunk-4MPP5SMQ.js";export{a as Plot,b as SeriesPage};
