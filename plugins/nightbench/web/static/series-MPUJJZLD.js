import{a,b}from"./chunk-HBR74O22.js";import"./chunk-T5OOT5WR.js";import"./chunk-F43HLCM6.js";import"./chunk-PBTD2JMN.js";import"./chunk-5BA26RCA.js";export{a as Plot,b as SeriesPage};
