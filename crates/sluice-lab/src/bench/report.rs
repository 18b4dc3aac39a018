//! Results as text for people and as JSON for programs.

use super::contest::{Figure, Role, Row, Unit};
use super::stats::{Quartiles, Verdict};
use serde_json::{Value, json};
use std::fmt::Write;

/// One table: the same cells for the same entrants.
#[derive(Clone, Debug)]
pub struct Table {
    /// What is measured, under which conditions.
    pub title: String,
    /// What a reader must know to trust it.
    pub notes: Vec<String>,
    /// Label and role of each entrant.
    pub entrants: Vec<(String, Role)>,
    /// The results.
    pub rows: Vec<Row>,
}

/// What one row says about the subject.
#[derive(Clone, Debug)]
pub struct Comparison<'t> {
    /// The subject's figure.
    pub subject: Option<&'t Figure>,
    /// The fastest peer, and its figure.
    pub best_peer: Option<(&'t str, &'t Figure)>,
    /// How often the subject fits into the control: 1 but for noise.
    pub control_ratio: Option<f64>,
    /// How often the subject fits into the best peer: above 1 it is faster.
    pub ratio: Option<f64>,
    /// What the spreads allow to say; the control's counts as the subject's.
    pub verdict: Option<Verdict>,
    /// The share of the distance from the best peer to the floor that the
    /// subject has closed, if these two can be told apart.
    pub closed: Option<f64>,
}

impl Table {
    /// Compares the entrants of one row.
    pub fn compare<'t>(&'t self, row: &'t Row) -> Comparison<'t> {
        let first = |role| self.figures(row, role).map(|(_, figure)| figure).next();
        let subject = first(Role::Subject);
        let control = first(Role::Control);
        let best_peer = self
            .figures(row, Role::Peer)
            .min_by(|a, b| f64::total_cmp(&a.1.value.median, &b.1.value.median));
        let times = |other: Option<&Figure>| {
            Some(other?.value.median / subject?.value.median).filter(|ratio| ratio.is_finite())
        };
        let peer_figure = best_peer.map(|(_, figure)| figure);
        Comparison {
            subject,
            best_peer,
            control_ratio: times(control),
            ratio: times(peer_figure),
            verdict: subject
                .zip(peer_figure)
                .map(|(ours, theirs)| verdict(ours, control, theirs)),
            closed: closed_distance(subject, peer_figure, first(Role::Floor)),
        }
    }

    fn figures<'t>(
        &'t self,
        row: &'t Row,
        role: Role,
    ) -> impl Iterator<Item = (&'t str, &'t Figure)> {
        self.entrants
            .iter()
            .zip(&row.results)
            .filter(move |((_, its), _)| *its == role)
            .filter_map(|((label, _), result)| Some((label.as_str(), result.as_ref().ok()?)))
    }

    fn has(&self, role: Role) -> bool {
        self.entrants.iter().any(|(_, its)| *its == role)
    }

    /// As text. With `everyone`, also a table of all entrants.
    pub fn render(&self, everyone: bool) -> String {
        let mut text = format!("## {}\n\n", self.title);
        for note in &self.notes {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- {note}");
        }
        text.push('\n');
        text += &align(&self.comparison_lines());
        if everyone {
            text.push('\n');
            text += &align(&self.entrant_lines());
        }
        for (cell, label, why) in self.failures() {
            let _ = writeln!(text, "not measured: {cell} on {label}: {why}");
        }
        text
    }

    fn comparison_lines(&self) -> Vec<Vec<String>> {
        let has_floor = self.has(Role::Floor);
        let mut head = vec![
            "",
            "sluice",
            "(spread)",
            "A/A",
            "peer",
            "(spread)",
            "ratio",
            "verdict",
            "CPU/op",
            "peer's",
            "best peer",
        ];
        if has_floor {
            head.insert(8, "of floor");
        }
        let mut lines = vec![head.into_iter().map(str::to_owned).collect()];
        for row in &self.rows {
            let it = self.compare(row);
            let peer = it.best_peer.map(|(_, figure)| figure);
            let mut line = vec![
                row.cell.to_owned(),
                or_dash(it.subject, |figure| show(row.unit, figure.value.median)),
                or_dash(it.subject, |figure| spread(&figure.value)),
                or_dash(it.control_ratio, |ratio| format!("{ratio:.2}")),
                or_dash(peer, |figure| show(row.unit, figure.value.median)),
                or_dash(peer, |figure| spread(&figure.value)),
                or_dash(it.ratio, |ratio| format!("{ratio:.2}×")),
                or_dash(it.verdict, |verdict| word(verdict, row.unit).to_owned()),
                or_dash(it.subject, cpu),
                or_dash(peer, cpu),
                or_dash(it.best_peer, |(label, _)| label.to_owned()),
            ];
            if has_floor {
                line.insert(8, or_dash(it.closed, show_share));
            }
            lines.push(line);
        }
        lines
    }

    fn entrant_lines(&self) -> Vec<Vec<String>> {
        let head =
            std::iter::once(String::new()).chain(self.entrants.iter().map(|(l, _)| l.clone()));
        let mut lines = vec![head.collect::<Vec<_>>()];
        lines.extend(self.rows.iter().map(|row| {
            let figures = row.results.iter().map(|result| match result {
                Ok(figure) => show(row.unit, figure.value.median),
                Err(_) => "–".to_owned(),
            });
            std::iter::once(row.cell.to_owned())
                .chain(figures)
                .collect()
        }));
        lines
    }

    fn failures(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        self.rows.iter().flat_map(|row| {
            self.entrants
                .iter()
                .zip(&row.results)
                .filter_map(|((label, _), result)| {
                    Some((row.cell, label.as_str(), result.as_ref().err()?.as_str()))
                })
        })
    }

    /// As JSON: all entrants of all rows, lower quartile, median, upper quartile.
    pub fn to_json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(|row| self.row_json(row)).collect();
        json!({ "title": self.title, "notes": self.notes, "rows": rows })
    }

    fn row_json(&self, row: &Row) -> Value {
        let it = self.compare(row);
        let entrants: Vec<Value> = self
            .entrants
            .iter()
            .zip(&row.results)
            .map(|((label, role), result)| match result {
                Ok(figure) => json!({
                    "label": label,
                    "role": role_word(*role),
                    "bursts": figure.bursts,
                    "value": quartiles_json(&figure.value),
                    "server_cpu_ns": figure.cpu_ns.as_ref().map(quartiles_json),
                }),
                Err(why) => json!({ "label": label, "role": role_word(*role), "failed": why }),
            })
            .collect();
        json!({
            "cell": row.cell,
            "unit": match row.unit {
                Unit::Operation | Unit::Bandwidth(_) => "ns per operation",
                Unit::Calls => "system calls per operation",
                Unit::Bytes => "bytes",
                Unit::Times => "times",
            },
            "bytes_per_operation": match row.unit {
                Unit::Bandwidth(bytes) => Some(bytes),
                _ => None,
            },
            "best_peer": it.best_peer.map(|(label, _)| label),
            "ratio": it.ratio,
            "control_ratio": it.control_ratio,
            "verdict": it.verdict.map(|verdict| word(verdict, row.unit)),
            "closed_distance_to_floor": it.closed,
            "entrants": entrants,
        })
    }
}

fn verdict(subject: &Figure, control: Option<&Figure>, peer: &Figure) -> Verdict {
    let ours = control.map_or(subject.value, |again| {
        subject.value.widened_by(&again.value)
    });
    Verdict::of(&ours, &peer.value)
}

fn closed_distance(
    subject: Option<&Figure>,
    peer: Option<&Figure>,
    floor: Option<&Figure>,
) -> Option<f64> {
    let (subject, peer, floor) = (&subject?.value, &peer?.value, &floor?.value);
    if Verdict::of(floor, peer) != Verdict::Faster {
        return None;
    }
    Some((peer.median - subject.median) / (peer.median - floor.median))
}

fn quartiles_json(quartiles: &Quartiles) -> Value {
    json!([quartiles.lower, quartiles.median, quartiles.upper])
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::Subject => "subject",
        Role::Control => "control",
        Role::Peer => "peer",
        Role::Floor => "floor",
    }
}

fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or("–".to_owned(), show)
}

fn show(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Operation => show_time(value),
        Unit::Bandwidth(bytes) => format!("{:.0} MB/s", bytes as f64 * 1e3 / value),
        Unit::Calls => format!("{value:.1}"),
        Unit::Bytes => format!("{:.1} MiB", value / f64::from(1 << 20)),
        Unit::Times => format!("{value:.2}"),
    }
}

/// Below the floor is who needs fewer messages.
fn show_share(share: f64) -> String {
    match share {
        share if share > 1.0 => "> 100 %".to_owned(),
        share => format!("{:.0} %", share * 100.0),
    }
}

fn show_time(time_ns: f64) -> String {
    match time_ns {
        ns if ns < 100_000.0 => format!("{:.2} µs", ns / 1e3),
        ns if ns < 1_000_000.0 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1_000_000_000.0 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

fn word(verdict: Verdict, unit: Unit) -> &'static str {
    match (verdict, unit) {
        (Verdict::Equal, _) => "equal",
        (Verdict::Faster, Unit::Calls | Unit::Bytes | Unit::Times) => "less",
        (Verdict::Slower, Unit::Calls | Unit::Bytes | Unit::Times) => "more",
        (Verdict::Faster, _) => "faster",
        (Verdict::Slower, _) => "slower",
    }
}

/// Half the distance between the quartiles, in percent of the median.
fn spread(value: &Quartiles) -> String {
    let half = (value.upper - value.lower) / 2.0;
    format!("±{:.0} %", 100.0 * half / value.median)
}

fn cpu(figure: &Figure) -> String {
    or_dash(figure.cpu_ns.as_ref(), |cpu| show_time(cpu.median))
}

/// Pads columns: the first to the left, the others to the right.
fn align(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for line in lines {
        for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = match column {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(lower: f64, median: f64, upper: f64) -> Result<Figure, String> {
        Ok(Figure {
            value: Quartiles {
                lower,
                median,
                upper,
            },
            cpu_ns: None,
            bursts: 3,
        })
    }

    fn table(results: Vec<Result<Figure, String>>) -> Table {
        Table {
            title: "t".into(),
            notes: vec!["n".into()],
            entrants: vec![
                ("sluice".into(), Role::Subject),
                ("sluice again".into(), Role::Control),
                ("p slow".into(), Role::Peer),
                ("p fast".into(), Role::Peer),
                ("null".into(), Role::Floor),
            ],
            rows: vec![Row {
                cell: "GETATTR",
                unit: Unit::Operation,
                results,
            }],
        }
    }

    #[test]
    fn the_best_peer_counts() {
        let table = table(vec![
            figure(2900.0, 3000.0, 3100.0),
            figure(2900.0, 3030.0, 3100.0),
            figure(8000.0, 9000.0, 9100.0),
            figure(4900.0, 5000.0, 5100.0),
            figure(900.0, 1000.0, 1100.0),
        ]);
        let it = table.compare(&table.rows[0]);
        assert_eq!(it.best_peer.unwrap().0, "p fast");
        assert_eq!(it.verdict, Some(Verdict::Faster));
        assert!((it.ratio.unwrap() - 5.0 / 3.0).abs() < 1e-9);
        assert!((it.control_ratio.unwrap() - 1.01).abs() < 1e-9);
        assert!((it.closed.unwrap() - 0.5).abs() < 1e-9);
        let text = table.render(false);
        assert!(text.contains("3.00 µs"), "{text}");
        assert!(text.contains("1.67×   faster"), "{text}");
        assert!(text.contains("50 %"), "{text}");
        assert!(!text.contains("p slow"), "{text}");
        assert!(table.render(true).contains("p slow"));
    }

    #[test]
    fn failures_are_told() {
        let table = table(vec![
            figure(1.0, 1.0, 1.0),
            figure(1.0, 1.0, 1.0),
            Err("connection lost".into()),
            Err("connection lost".into()),
            Err("connection lost".into()),
        ]);
        let it = table.compare(&table.rows[0]);
        assert!(it.ratio.is_none() && it.verdict.is_none() && it.closed.is_none());
        let text = table.render(false);
        assert!(
            text.contains("not measured: GETATTR on p fast: connection lost"),
            "{text}"
        );
        let json = table.to_json();
        assert_eq!(json["rows"][0]["entrants"][2]["failed"], "connection lost");
        assert_eq!(json["rows"][0]["entrants"][0]["value"][1], 1.0);
    }

    #[test]
    fn bandwidth_is_shown_as_such() {
        assert_eq!(show(Unit::Bandwidth(1 << 20), 1_048_576.0), "1000 MB/s");
        assert_eq!(show(Unit::Operation, 123_456.0), "123.5 µs");
        assert_eq!(show(Unit::Operation, 123_456_789.0), "123.46 ms");
        assert_eq!(show(Unit::Operation, 12_345_678_901.0), "12.35 s");
    }
}
