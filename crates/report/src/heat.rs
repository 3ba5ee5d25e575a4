//! A heat map of a study's table, with one row per level of one factor and one column per contestant. Each cell shows
//! the contestant's time divided by the smallest time of its row. Each combination of the other factors has its own
//! map.
//!
//! The map is an HTML table, which a browser can read aloud, copy and print without script or drawing.

use super::sheet::{Panel, Sheet};
use super::svg::{escape, plain, short_unit};
use super::words::capital;
use std::fmt::Write;

/// A contestant ties with the fastest one if the ratio of its time to the fastest time is at most this number. All
/// other parts of the report use the same limit of 3 %.
const TIE_RATIO: f64 = 1.03;
/// The ratio to the fastest time from which a cell of the map has the darkest colour.
const DARKEST: f64 = 2.0;

/// Draws the heat maps of a study's table.
pub(super) fn draw(out: &mut String, sheet: &Sheet) {
    let _ = write!(
        out,
        "<h2 id=\"map-{}\">{}</h2>\n<p class=\"note\">{} (geometric mean of the runs) and, in each row, how many times the \
         least of them that is. Green: within 3 % of the least. The darker, the more is lost by the choice.</p>\n<div \
         class=\"maps\">",
        escape(&sheet.name),
        escape(&sheet.title),
        escape(&capital(short_unit(&sheet.unit)))
    );
    sheet.panels.iter().for_each(|panel| map(out, sheet, panel));
    out.push_str("</div>\n");
}

fn map(out: &mut String, sheet: &Sheet, panel: &Panel) {
    let mean = |curve: usize, level: usize| Some(panel.curves[curve].ours.get(level).copied().flatten()?[1]);
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"heat\"><caption>{}</caption><thead><tr><th>{}</th>",
        escape(&panel.title),
        escape(&sheet.along)
    );
    for curve in &panel.curves {
        let _ = write!(out, "<th>{}</th>", escape(&curve.name));
    }
    out.push_str("</tr></thead><tbody>");
    for (at, level) in panel.levels.iter().enumerate() {
        let _ = write!(out, "<tr><th>{}</th>", escape(level));
        let least = (0..panel.curves.len()).filter_map(|curve| mean(curve, at)).reduce(f64::min);
        for curve in 0..panel.curves.len() {
            match mean(curve, at).zip(least.filter(|least| *least > 0.0)) {
                None => out.push_str("<td>-</td>"),
                Some((own, least)) => cell(out, own, own / least),
            }
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

fn cell(out: &mut String, own: f64, ratio: f64) {
    let shown = match own {
        own if own >= 100.0 => plain(own),
        own if own >= 10.0 => format!("{own:.1}"),
        own => format!("{own:.2}"),
    };
    let (class, share) = if ratio <= TIE_RATIO {
        ("least", 0.0)
    } else {
        ("", (ratio.ln() / f64::ln(DARKEST)).clamp(0.0, 1.0))
    };
    let times = if ratio < 1.005 { "least".to_owned() } else { format!("\u{d7}{ratio:.2}") };
    let _ = write!(
        out,
        "<td class=\"{class}\" style=\"--share:{:.0}%\"><b>{shown}</b> <span>{times}</span></td>",
        10.0 + 55.0 * share
    );
}

#[cfg(test)]
mod tests {
    use super::super::sheet::Curve;
    use super::*;

    #[test]
    fn each_cell_is_compared_with_the_smallest_value_of_its_row() {
        let curve = |name: &str, means: [f64; 2]| Curve {
            name: name.to_owned(),
            ours: means.iter().map(|mean| Some([mean * 0.9, *mean, mean * 1.1])).collect(),
            published: vec![None, None],
        };
        let panel = Panel {
            title: "page news".to_owned(),
            levels: vec!["dsl".to_owned(), "<lte>".to_owned()],
            curves: vec![curve("a", [1.0, 3.0]), curve("b", [1.02, 1.5]), curve("c", [1.5, 30.0])],
        };
        let sheet = Sheet {
            name: "t".to_owned(),
            title: "a title".to_owned(),
            unit: "seconds (mean)".to_owned(),
            along: "preset".to_owned(),
            panels: vec![panel],
            map: true,
        };
        let mut out = String::new();
        draw(&mut out, &sheet);
        for expected in [
            "<th>dsl</th><td class=\"least\" style=\"--share:10%\"><b>1.00</b> <span>least</span></td>\
             <td class=\"least\" style=\"--share:10%\"><b>1.02</b> <span>\u{d7}1.02</span></td>",
            "<th>&lt;lte&gt;</th><td class=\"\" style=\"--share:65%\"><b>3.00</b> <span>\u{d7}2.00</span></td>",
            "<b>30.0</b> <span>\u{d7}20.00</span>",
            "Seconds (geometric mean of the runs) and, in each row",
        ] {
            assert!(out.contains(expected), "{expected} in {out}");
        }
    }
}
