//! What leaves the house: v1 types and their renderings.
