//! Results as tables through the Arrow C Data Interface, which pandas, polars, DuckDB and pyarrow read without copying.
//!
//! The factors are the first columns, followed by columns named as in the results. Columns whose names end in `_ms`
//! hold milliseconds. Columns whose names end in `_ns` hold integer nanoseconds.

use anabranch_results::{
    Changed, Comparison, Object, Outcome, PARTS, Point, Race, Run, Stat, Summary, TimeBreakdown,
};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
    UInt64Array,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{Field, Schema};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// The name of a column, and the function that reads its value from a row.
type Column<T, N> = (&'static str, fn(&T) -> Option<N>);

/// A table of results. Any library that supports `__arrow_c_stream__` can read it.
#[pyclass(frozen)]
pub struct Table {
    batch: RecordBatch,
}

#[pymethods]
impl Table {
    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// The names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The schema, as a capsule of the Arrow C Data Interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(broken)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The rows, as a capsule of the Arrow C Stream Interface. A requested schema is ignored.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let schema = self.batch.schema();
        let rows = RecordBatchIterator::new([Ok(self.batch.clone())], schema);
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(rows)), c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<anabranch table: {} rows of {}>", self.num_rows(), self.column_names().join(", "))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what map_err hands over")]
fn broken(error: arrow_schema::ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// Named columns.
#[derive(Default)]
struct Columns(Vec<(String, ArrayRef)>);

impl Columns {
    /// Returns one text column for each factor of the race. The column holds the value that the factor has in each row.
    fn of_factors<'a>(race: &Race, rows: impl Iterator<Item = &'a Point> + Clone) -> Self {
        let mut columns = Self::default();
        for factor in anabranch_results::csv::factors(race.points.first()) {
            columns
                .add_texts(factor, rows.clone().map(|point| point.factors.get(factor).map(String::as_str)));
        }
        columns
    }

    fn add(&mut self, name: &str, column: ArrayRef) {
        self.0.push((name.to_owned(), column));
    }

    fn add_texts<'a>(&mut self, name: &str, values: impl Iterator<Item = Option<&'a str>>) {
        self.add(name, Arc::new(values.collect::<StringArray>()));
    }

    fn add_counts(&mut self, name: &str, values: impl Iterator<Item = Option<u64>>) {
        self.add(name, Arc::new(values.collect::<UInt64Array>()));
    }

    fn add_numbers(&mut self, name: &str, values: impl Iterator<Item = Option<f64>>) {
        self.add(name, Arc::new(values.collect::<Float64Array>()));
    }

    fn add_flags(&mut self, name: &str, values: impl Iterator<Item = bool>) {
        self.add(name, Arc::new(values.map(Some).collect::<BooleanArray>()));
    }

    fn table(self) -> PyResult<Table> {
        let fields: Vec<Field> =
            self.0.iter().map(|(name, column)| Field::new(name, column.data_type().clone(), true)).collect();
        let columns = self.0.into_iter().map(|(_, column)| column).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(broken)?;
        Ok(Table { batch })
    }
}

const fn outcome(run: &Run) -> &'static str {
    match run.outcome {
        Outcome::Done => "done",
        Outcome::Failed => "failed",
        Outcome::Deadline => "deadline",
    }
}

/// Returns a row for each point, contestant and metric.
pub fn summary(race: &Race) -> PyResult<Table> {
    let mut rows: Vec<(&Point, &str, &str, &Stat)> = Vec::new();
    for point in &race.points {
        for contestant in &point.contestants {
            for metric in Summary::METRICS {
                let stat = contestant.summary.metric(metric);
                rows.extend(stat.map(|stat| (point, contestant.name.as_str(), metric, stat)));
            }
        }
    }
    let mut columns = Columns::of_factors(race, rows.iter().map(|row| row.0));
    columns.add_texts("contestant", rows.iter().map(|row| Some(row.1)));
    columns.add_texts("metric", rows.iter().map(|row| Some(row.2)));
    columns.add_counts("n", rows.iter().map(|row| Some(row.3.n)));
    columns.add_counts("failed", rows.iter().map(|row| Some(row.3.failed)));
    let numbers: [Column<Stat, f64>; 11] = [
        ("mean", |stat| stat.mean),
        ("geometric_mean", |stat| stat.geometric_mean),
        ("median", |stat| stat.median),
        ("ci95_low", |stat| stat.ci95.map(|[low, _]| low)),
        ("ci95_high", |stat| stat.ci95.map(|[_, high]| high)),
        ("quartile_low", |stat| stat.quartiles.map(|[low, _]| low)),
        ("quartile_high", |stat| stat.quartiles.map(|[_, high]| high)),
        ("p10", |stat| stat.p10),
        ("p75", |stat| stat.p75),
        ("p90", |stat| stat.p90),
        ("p95", |stat| stat.p95),
    ];
    for (name, of) in numbers {
        columns.add_numbers(name, rows.iter().map(|row| of(row.3)));
    }
    columns.table()
}

/// Returns a row for each point, contestant and seed.
pub fn runs(race: &Race) -> PyResult<Table> {
    let rows: Vec<(&Point, &str, &Run)> = of_runs(race).collect();
    let mut columns = Columns::of_factors(race, rows.iter().map(|row| row.0));
    columns.add_texts("contestant", rows.iter().map(|row| Some(row.1)));
    columns.add_counts("seed", rows.iter().map(|row| Some(row.2.seed)));
    columns.add_texts("outcome", rows.iter().map(|row| Some(outcome(row.2))));
    let counts: [Column<Run, u64>; 20] = [
        ("page_ns", |run| run.page_ns),
        ("start_render_ns", |run| run.start_render_ns),
        ("largest_image_ns", |run| run.largest_image_ns),
        ("byte_index_ns", |run| run.byte_index_ns),
        ("limit_ns", |run| run.limit_ns),
        ("connect_ns", |run| run.connect_ns),
        ("declared_failed_ns", |run| run.declared_failed_ns),
        ("failover_ns", |run| run.failover_ns),
        ("restored_ns", |run| run.restored_ns),
        ("connections", |run| Some(run.connections)),
        ("packets_up", |run| Some(run.packets.up.sent)),
        ("packets_down", |run| Some(run.packets.down.sent)),
        ("lost_up", |run| Some(run.packets.up.lost)),
        ("lost_down", |run| Some(run.packets.down.lost)),
        ("retransmitted_up", |run| Some(run.packets.up.retransmitted)),
        ("retransmitted_down", |run| Some(run.packets.down.retransmitted)),
        ("timeouts", |run| Some(run.events.timeouts)),
        ("fast", |run| Some(run.events.fast)),
        ("wire_bytes_up", |run| Some(run.wire_bytes.up)),
        ("wire_bytes_down", |run| Some(run.wire_bytes.down)),
    ];
    for (name, of) in counts {
        columns.add_counts(name, rows.iter().map(|row| of(row.2)));
    }
    columns.table()
}

fn of_runs(race: &Race) -> impl Iterator<Item = (&Point, &str, &Run)> {
    race.points.iter().flat_map(|point| {
        point.contestants.iter().flat_map(move |contestant| {
            contestant.runs.iter().map(move |run| (point, contestant.name.as_str(), run))
        })
    })
}

/// Returns a row for each point, contestant, seed and object.
pub fn objects(race: &Race) -> PyResult<Table> {
    let rows: Vec<(&Point, &str, &Run, &Object)> = of_runs(race)
        .flat_map(|(point, contestant, run)| {
            run.objects.iter().map(move |object| (point, contestant, run, object))
        })
        .collect();
    let mut columns = Columns::of_factors(race, rows.iter().map(|row| row.0));
    columns.add_texts("contestant", rows.iter().map(|row| Some(row.1)));
    columns.add_counts("seed", rows.iter().map(|row| Some(row.2.seed)));
    columns.add_texts("outcome", rows.iter().map(|row| Some(outcome(row.2))));
    columns.add_counts("page_ns", rows.iter().map(|row| row.2.page_ns));
    columns.add_texts("object", rows.iter().map(|row| Some(row.3.name.as_str())));
    columns.add_counts("bytes", rows.iter().map(|row| Some(row.3.bytes)));
    let counts: [Column<Object, u64>; 5] = [
        ("connection", |object| object.connection),
        ("stream", |object| object.stream),
        ("issued_ns", |object| object.issued_ns),
        ("first_byte_ns", |object| object.first_byte_ns),
        ("delivered_ns", |object| object.delivered_ns),
    ];
    for (name, of) in counts {
        columns.add_counts(name, rows.iter().map(|row| of(row.3)));
    }
    columns.add_texts("failure", rows.iter().map(|row| row.3.failure.as_deref()));
    for (at, part) in PARTS.iter().enumerate() {
        let of = |object: &Object| object.why.as_ref().map(TimeBreakdown::parts).and_then(|parts| parts[at]);
        columns.add_counts(&format!("{part}_ns"), rows.iter().map(|row| of(row.3)));
    }
    columns.table()
}

/// Returns a row for each comparison of two contestants in one metric at one point.
pub fn comparisons(race: &Race) -> PyResult<Table> {
    let mut rows: Vec<(&Point, &Comparison)> = Vec::new();
    for point in &race.points {
        rows.extend(point.comparisons.iter().map(|comparison| (point, comparison)));
    }
    let mut columns = Columns::of_factors(race, rows.iter().map(|row| row.0));
    columns.add_texts("a", rows.iter().map(|row| Some(row.1.a.as_str())));
    columns.add_texts("b", rows.iter().map(|row| Some(row.1.b.as_str())));
    columns.add_texts("metric", rows.iter().map(|row| Some(row.1.metric.as_str())));
    columns.add_numbers("ratio", rows.iter().map(|row| row.1.ratio));
    columns.add_numbers("ci95_low", rows.iter().map(|row| row.1.ci95.map(|ci95| ci95[0])));
    columns.add_numbers("ci95_high", rows.iter().map(|row| row.1.ci95.map(|ci95| ci95[1])));
    columns.add_numbers("median_ratio", rows.iter().map(|row| row.1.median_ratio));
    columns.add_numbers("median_ci95_low", rows.iter().map(|row| row.1.median_ci95.map(|ci95| ci95[0])));
    columns.add_numbers("median_ci95_high", rows.iter().map(|row| row.1.median_ci95.map(|ci95| ci95[1])));
    columns.add_counts("n", rows.iter().map(|row| Some(row.1.n)));
    columns.add_counts("less", rows.iter().map(|row| Some(row.1.less)));
    columns.add_counts("more", rows.iter().map(|row| Some(row.1.more)));
    columns.add_texts("verdict", rows.iter().map(|row| Some(row.1.verdict.name())));
    columns.table()
}

/// Returns a row for each point, change to it, and contestant.
pub fn changes(race: &Race) -> PyResult<Table> {
    let mut rows: Vec<(&Point, &Changed, &str, Option<f64>)> = Vec::new();
    for point in &race.points {
        for changed in &point.changes {
            let medians = point.contestants.iter().zip(&changed.medians_ms);
            rows.extend(medians.map(|(one, median)| (point, changed, one.name.as_str(), *median)));
        }
    }
    let mut columns = Columns::of_factors(race, rows.iter().map(|row| row.0));
    columns.add_texts("change", rows.iter().map(|row| Some(row.1.change.as_str())));
    columns.add_counts("n", rows.iter().map(|row| Some(row.1.n)));
    columns.add_texts("contestant", rows.iter().map(|row| Some(row.2)));
    columns.add_numbers("median_ms", rows.iter().map(|row| row.3));
    columns.add_texts("winner", rows.iter().map(|row| row.1.winner.as_deref()));
    columns.add_texts("runner_up", rows.iter().map(|row| row.1.runner_up.as_deref()));
    columns.add_numbers("median_ratio", rows.iter().map(|row| row.1.median_ratio));
    columns.add_numbers("median_ci95_low", rows.iter().map(|row| row.1.median_ci95.map(|ci95| ci95[0])));
    columns.add_numbers("median_ci95_high", rows.iter().map(|row| row.1.median_ci95.map(|ci95| ci95[1])));
    columns.add_flags("flips", rows.iter().map(|row| row.1.flips));
    columns.table()
}

/// Returns a row for each cause of a gap between two contestants.
pub fn causes(race: &Race) -> PyResult<Table> {
    let mut rows = Vec::new();
    for point in &race.points {
        for comparison in &point.comparisons {
            let Some(experiment) = &comparison.experiment else { continue };
            let helps = comparison.causes.iter().map(|cause| (cause, false));
            let holds_back = experiment.adverse_causes.iter().map(|cause| (cause, true));
            rows.extend(
                helps.chain(holds_back).map(|(cause, is_adverse)| (point, experiment, cause, is_adverse)),
            );
        }
    }
    let mut columns = Columns::of_factors(race, rows.iter().map(|row| row.0));
    columns.add_texts("winner", rows.iter().map(|row| Some(row.1.winner.as_str())));
    columns.add_texts("loser", rows.iter().map(|row| Some(row.1.loser.as_str())));
    columns.add_numbers("gap", rows.iter().map(|row| Some(row.1.gap)));
    columns.add_texts("factor", rows.iter().map(|row| Some(row.2.factor.as_str())));
    columns.add_texts("change", rows.iter().map(|row| Some(row.2.change.as_str())));
    columns.add_texts("was", rows.iter().map(|row| Some(row.2.was.as_str())));
    columns.add_numbers("effect", rows.iter().map(|row| Some(row.2.effect)));
    columns.add_numbers("ci_low", rows.iter().map(|row| Some(row.2.ci[0])));
    columns.add_numbers("ci_high", rows.iter().map(|row| Some(row.2.ci[1])));
    columns.add_flags("enough", rows.iter().map(|row| row.2.enough));
    columns.add_flags("holds_back", rows.iter().map(|row| row.3));
    columns.table()
}

/// Reads a CSV file that the `anabranch` command wrote, and returns it as a table. A column holds integers if all its
/// non-empty fields are integers, and numbers if all are numbers.
#[pyfunction]
pub fn read_csv(path: &str) -> PyResult<Table> {
    let wrong = |error: csv::Error| PyValueError::new_err(format!("{path}: {error}"));
    let mut reader = csv::Reader::from_path(path).map_err(wrong)?;
    let header = reader.headers().map_err(wrong)?.clone();
    let records = reader.records().collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let mut columns = Columns::default();
    for (at, name) in header.iter().enumerate() {
        let fields = || records.iter().map(|record| record.get(at).filter(|field| !field.is_empty()));
        let whole: Result<Vec<Option<i64>>, _> =
            fields().map(|field| field.map(str::parse).transpose()).collect();
        let numbers: Result<Vec<Option<f64>>, _> =
            fields().map(|field| field.map(str::parse).transpose()).collect();
        match (fields().any(|field| field.is_some()), whole, numbers) {
            (true, Ok(whole), _) => columns.add(name, Arc::new(Int64Array::from(whole))),
            (true, _, Ok(numbers)) => columns.add(name, Arc::new(Float64Array::from(numbers))),
            _ => columns.add_texts(name, fields()),
        }
    }
    columns.table()
}
