//! Plans to runs to results to report.
//!
//! [`plan`] says what to race; [`run`] runs it, a world per seed and a thread
//! per world; [`results`] is what comes out, in a documented format; [`stats`]
//! summarises; [`table`] and `report` show it; [`sweep`] is what many points add. Nothing here knows how a packet
//! is made.

pub mod attribution;
pub mod capture;
pub mod causes;
pub mod compare;
pub mod csv;
pub mod features;
pub mod json;
pub mod limit;
pub mod plan;
pub mod population;
pub mod report;
pub mod results;
pub mod run;
pub mod stats;
pub mod study;
pub mod sweep;
pub mod table;
pub mod transports;
pub mod verdict;
