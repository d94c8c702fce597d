//! Tables that the API server makes, as kubectl asks for them.
//!
//! Invariant: no cell that is shown has a control character, a line break or what looks like a secret.

use insight::text;
use serde::Deserialize;
use serde_json::Value;

/// `Table` of meta.k8s.io/v1.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerTable {
    /// Of the list.
    pub metadata: ListMeta,
    /// Its columns.
    pub column_definitions: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// What a list says of itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ListMeta {
    /// Where the next page begins; none of the last.
    #[serde(rename = "continue")]
    pub next: Option<String>,
    /// The version of all of it, from which on changes can be watched.
    #[serde(rename = "resourceVersion")]
    pub version: String,
}

/// A column.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// Above zero: only shown where everything is.
    pub priority: i32,
}

/// A row.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Row {
    /// What stands in it, in the order of the columns.
    pub cells: Vec<Value>,
    /// Whose row it is.
    pub object: Object,
}

/// The object of a row.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Object {
    /// Its metadata.
    pub metadata: Names,
}

/// How it is called.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Names {
    /// Its name.
    pub name: String,
    /// Its namespace; none of what has none.
    pub namespace: Option<String>,
    /// Its version.
    #[serde(rename = "resourceVersion")]
    pub version: String,
}

impl ServerTable {
    /// Adds another page.
    pub fn append(&mut self, mut more: Self) {
        if self.column_definitions.is_empty() {
            self.column_definitions = more.column_definitions;
            self.metadata.version = more.metadata.version;
        }
        self.rows.append(&mut more.rows);
    }

    /// The headings and rows to be shown.
    #[must_use]
    pub fn shown(&self, is_wide: bool, has_namespace: bool) -> Vec<Vec<String>> {
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

/// A cell, fit to be shown.
#[must_use]
pub fn of_cell(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(said) => text::shown(said),
        other => text::shown(&other.to_string()),
    }
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
        let narrow = table.shown(false, false);
        let lines: Vec<_> = narrow.iter().map(|line| line.join("|")).collect();
        assert_eq!(lines, ["NAME|READY", "demo|True", "a-longer-name|False"]);
        let wide = table.shown(true, true);
        assert_eq!(wide[0].join("|"), "NAMESPACE|NAME|READY|MESSAGE");
        assert_eq!(wide[2].join("|"), "team-b|a-longer-name|False|evil [31m");
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
