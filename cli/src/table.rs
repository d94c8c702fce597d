//! Tables: those that the API server makes, as kubectl asks for them, and ours.
//!
//! Invariant: names are never cut, and no cell has a control character.

use insight::text;
use serde::Deserialize;
use serde_json::Value;

/// `Table` of meta.k8s.io/v1.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServerTable {
    pub(crate) metadata: ListMeta,
    pub(crate) column_definitions: Vec<Column>,
    pub(crate) rows: Vec<Row>,
}

/// What a list says of itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListMeta {
    /// Where the next page begins; none of the last.
    #[serde(rename = "continue")]
    pub(crate) next: Option<String>,
}

/// A column.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Above zero: only shown where everything is.
    pub(crate) priority: i32,
}

/// A row.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Value>,
    pub(crate) object: Object,
}

/// The object of a row.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Object {
    pub(crate) metadata: Names,
}

/// How it is called.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Names {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
}

impl ServerTable {
    /// Adds another page.
    pub(crate) fn append(&mut self, mut more: Self) {
        if self.column_definitions.is_empty() {
            self.column_definitions = more.column_definitions;
        }
        self.rows.append(&mut more.rows);
    }

    /// The headings and rows to be shown.
    pub(crate) fn shown(&self, is_wide: bool, has_namespace: bool) -> Vec<Vec<String>> {
        let is_shown = |column: &Column| is_wide || column.priority == 0;
        let columns: Vec<_> = self.column_definitions.iter().map(is_shown).collect();
        let heading = |column: &Column| column.name.to_uppercase();
        let mut first: Vec<_> = self
            .column_definitions
            .iter()
            .filter(|column| is_shown(column))
            .map(heading)
            .collect();
        if has_namespace {
            first.insert(0, "NAMESPACE".to_owned());
        }
        let mut lines = vec![first];
        for row in &self.rows {
            let cells = row.cells.iter().zip(&columns).filter(|(_, shown)| **shown);
            let mut line: Vec<_> = cells.map(|(cell, _)| of_cell(cell)).collect();
            if has_namespace {
                let namespace = row.object.metadata.namespace.as_deref();
                line.insert(0, text::shown(namespace.unwrap_or_default()));
            }
            lines.push(line);
        }
        lines
    }
}

fn of_cell(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(said) => text::shown(said),
        other => text::shown(&other.to_string()),
    }
}

/// Columns one below the other, three spaces apart.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |at: usize| {
        let cells = lines.iter().filter_map(|line| line.get(at));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut out = String::new();
    for line in lines {
        let mut written = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            let space = width.saturating_sub(cell.chars().count()) + 3;
            written.push_str(cell);
            written.extend(std::iter::repeat_n(' ', space));
        }
        out.push_str(written.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table() -> ServerTable {
        serde_json::from_value(json!({"kind": "Table", "metadata": {"continue": "x"},
            "columnDefinitions": [{"name": "Name", "type": "string", "priority": 0},
                {"name": "Ready", "type": "string", "priority": 0},
                {"name": "Message", "type": "string", "priority": 1}],
            "rows": [
                {"cells": ["demo", "True", null], "object": {"metadata": {"name": "demo", "namespace": "team-a"}}},
                {"cells": ["a-longer-name", "False", "evil\u{1b}[31m"], "object": {"metadata": {"name": "a-longer-name", "namespace": "team-b"}}}]}))
        .unwrap()
    }

    #[test]
    fn columns_are_the_servers_and_the_wide_ones_only_on_demand() {
        let table = table();
        assert_eq!(table.metadata.next.as_deref(), Some("x"));
        let narrow = aligned(&table.shown(false, false));
        assert_eq!(
            narrow,
            "NAME            READY\ndemo            True\na-longer-name   False\n"
        );
        let wide = aligned(&table.shown(true, true));
        assert!(
            wide.starts_with("NAMESPACE   NAME            READY   MESSAGE\n"),
            "{wide}"
        );
        assert!(
            wide.contains("team-b      a-longer-name   False   evil [31m\n"),
            "{wide}"
        );
    }

    #[test]
    fn pages_are_put_together() {
        let mut all = ServerTable::default();
        all.append(table());
        all.append(table());
        assert_eq!(all.rows.len(), 4);
        assert_eq!(all.column_definitions.len(), 3);
    }
}
