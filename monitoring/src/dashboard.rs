//! A dashboard of Grafana: what there is to say of one, and its JSON.
//!
//! Identifiers are fixed or counted from one, so that the same dashboard has the same JSON, and nothing in it is of one
//! Grafana. Source of the form: Grafana's "Dashboard JSON model", schemaVersion 39.
//! Invariant: a panel has a unit, and asks the data source that was chosen.

use serde_json::{Value, json};

/// Panels in a row.
const ACROSS: usize = 3;
/// Of the 24 columns of a row.
const WIDTH: usize = 24 / ACROSS;
const HEIGHT: usize = 8;

/// How a panel shows what it asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// Lines over time.
    Lines,
    /// One number, that of now.
    Number,
    /// A bar for each series, as it is now.
    Bars,
}

impl Form {
    fn as_str(self) -> &'static str {
        match self {
            Self::Lines => "timeseries",
            Self::Number => "stat",
            Self::Bars => "bargauge",
        }
    }

    /// Whether only the last value is asked for.
    fn is_of_now(self) -> bool {
        self != Self::Lines
    }
}

/// One panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What it shows.
    pub title: &'static str,
    /// What it means; may be empty.
    pub description: &'static str,
    /// How it shows it.
    pub form: Form,
    /// Grafana's name of the unit.
    pub unit: &'static str,
    /// Expressions, and what their series are called.
    pub targets: Vec<(String, &'static str)>,
}

/// One dashboard.
#[derive(Clone, Debug)]
pub struct Dashboard {
    /// Name of its file, without an ending, and end of its `uid`.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The variable that is chosen besides the data source, and from where its values come: name, label, query.
    pub variable: Option<(&'static str, &'static str, &'static str)>,
    /// Whether several values may be chosen at once.
    pub is_multiple: bool,
    /// Its panels, row by row.
    pub panels: Vec<Panel>,
}

impl Dashboard {
    /// Its JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut variables = vec![json!({
            "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
        })];
        variables.extend(self.variable.map(|(name, label, query)| {
            json!({
                "name": name, "label": label, "type": "query", "datasource": source(),
                "query": { "query": query, "refId": name }, "refresh": 2, "sort": 1,
                "includeAll": self.is_multiple, "multi": self.is_multiple, "current": {},
            })
        }));
        let panels: Vec<_> = self
            .panels
            .iter()
            .enumerate()
            .map(|(at, panel)| panel.json(at))
            .collect();
        json!({
            "uid": format!("covey-{}", self.name), "title": self.title, "tags": ["covey"],
            "schemaVersion": 39, "version": 1, "editable": false, "timezone": "browser", "refresh": "30s",
            "time": { "from": "now-6h", "to": "now" },
            "links": [{
                "title": "Runbooks", "type": "link", "icon": "doc", "targetBlank": true,
                "url": crate::rule::RUNBOOKS,
            }, {
                "title": "Covey", "type": "dashboards", "tags": ["covey"], "asDropdown": true, "includeVars": false,
            }],
            "templating": { "list": variables }, "annotations": { "list": [] }, "panels": panels,
        })
    }
}

impl Panel {
    fn json(&self, at: usize) -> Value {
        let letters = ('A'..='Z').map(String::from);
        let targets: Vec<_> = self.targets.iter().zip(letters).map(|((expression, legend), letter)| {
            json!({
                "refId": letter, "expr": expression, "legendFormat": legend, "datasource": source(),
                "instant": self.form.is_of_now(), "range": !self.form.is_of_now(),
            })
        }).collect();
        let mut panel = json!({
            "id": at + 1, "type": self.form.as_str(), "title": self.title, "description": self.description,
            "datasource": source(), "targets": targets,
            "gridPos": { "x": at % ACROSS * WIDTH, "y": at / ACROSS * HEIGHT, "w": WIDTH, "h": HEIGHT },
            "fieldConfig": { "defaults": { "unit": self.unit, "min": 0 }, "overrides": [] },
        });
        if self.form.is_of_now() {
            panel["options"] =
                json!({ "reduceOptions": { "calcs": ["lastNotNull"], "values": false } });
        }
        panel
    }
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_stand_beside_each_other_and_are_counted() {
        let panel = Panel {
            title: "T",
            description: "",
            form: Form::Lines,
            unit: "s",
            targets: vec![("a".to_owned(), "x"), ("b".to_owned(), "y")],
        };
        let dashboard = Dashboard {
            name: "n",
            title: "N",
            variable: None,
            is_multiple: false,
            panels: vec![panel.clone(), panel.clone(), panel.clone(), panel],
        };
        let json = dashboard.json();
        let place = |at: usize| json["panels"][at]["gridPos"].clone();
        assert_eq!(place(1), json!({ "x": 8, "y": 0, "w": 8, "h": 8 }));
        assert_eq!(place(3), json!({ "x": 0, "y": 8, "w": 8, "h": 8 }));
        assert_eq!(json["panels"][3]["id"], 4);
        assert_eq!(json["panels"][0]["targets"][1]["refId"], "B");
        assert_eq!(
            (&json["uid"], &json["editable"]),
            (&json!("covey-n"), &json!(false))
        );
    }
}
