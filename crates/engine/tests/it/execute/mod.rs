//! Manually built plans, executed on real file systems.

mod collisions;
mod filters;
mod fixture;
mod groups;
mod removals;
mod steps;
mod trouble;
