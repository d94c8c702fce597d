//! Forms: their fields, what was filled in, what is wrong with it, and the objects that it makes.
//!
//! Invariant: pure. A form knows no rule of the API: beside a field stands what the API said of it. What was typed stays.

use std::collections::BTreeMap;

use insight::text::shown;
use kube::core::Status;
use serde_json::{Value, json};

use crate::query::Pairs;

pub mod cluster;
pub mod pool;

/// Which object a field is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Of {
    /// The TenantCluster.
    Cluster,
    /// The NodePool.
    Pool,
}

/// How a field is filled in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Input {
    /// A line of text.
    Text,
    /// A whole number from the first to the second.
    Number(i64, i64),
    /// One of these: value and what people call it.
    Choice(&'static [(&'static str, &'static str)]),
}

/// A field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Field {
    /// Its name in the form.
    pub name: &'static str,
    /// What people call it.
    pub label: &'static str,
    /// What it is for, and what it is where nothing is filled in.
    pub hint: &'static str,
    /// How it is filled in.
    pub input: Input,
    /// Whether something has to be filled in.
    pub is_required: bool,
    /// Whose it is.
    pub of: Of,
    /// Its path in the object: `spec.version`.
    pub path: &'static str,
}

/// Something that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mistake {
    /// The field's name; none of what is of no one field.
    pub field: Option<&'static str>,
    /// What, and how to mend it.
    pub what: String,
}

/// A form that was filled in.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Filled {
    /// What stands in the fields.
    pub values: BTreeMap<&'static str, String>,
    /// What is wrong.
    pub mistakes: Vec<Mistake>,
    /// Whether it was looked at, and so nothing wrong means that it is right.
    pub is_checked: bool,
}

/// Most characters of a field.
const MOST: usize = 1024;

impl Filled {
    /// With what was sent.
    #[must_use]
    pub fn read(fields: &[Field], sent: &Pairs) -> Self {
        let value = |field: &Field| {
            let text: String = sent.text(field.name).chars().take(MOST).collect();
            (field.name, text)
        };
        Self {
            values: fields.iter().map(value).collect(),
            ..Self::default()
        }
    }

    /// What stands in a field.
    #[must_use]
    pub fn value(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// What is wrong with a field.
    #[must_use]
    pub fn mistake(&self, name: &str) -> Option<&Mistake> {
        self.mistakes.iter().find(|m| m.field == Some(name))
    }

    /// Looks at what no object can be made of: what is missing, and what is no number.
    pub fn judge(&mut self, fields: &[Field]) {
        for field in fields {
            let value = self.value(field.name);
            let what = match field.input {
                _ if value.is_empty() => match field.is_required {
                    true => Some(format!("{} is missing", field.label)),
                    false => None,
                },
                Input::Number(..) if value.parse::<i64>().is_err() => {
                    Some(format!("{} is a whole number", field.label))
                }
                Input::Text | Input::Number(..) | Input::Choice(_) => None,
            };
            if let Some(what) = what {
                self.add(Some(field.name), what);
            }
        }
    }

    /// Notes what the API said of an object, beside the fields that it names.
    pub fn refuse(&mut self, fields: &[Field], of: Of, status: &Status) {
        let causes = status.details.as_ref().map(|d| d.causes.as_slice());
        let causes = causes.unwrap_or_default();
        for cause in causes {
            let field = field_at(fields, of, &cause.field);
            let path =
                Some(cause.field.as_str()).filter(|path| !path.is_empty() && field.is_none());
            let what = match path {
                Some(path) => format!("{path}: {}", cause.message),
                None => cause.message.clone(),
            };
            self.add(field, shown(&what));
        }
        if causes.is_empty() {
            // Webhooks and policies name the field in their sentence, or none.
            let field = fields
                .iter()
                .filter(|field| field.of == of && status.message.contains(field.path))
                .max_by_key(|field| field.path.len());
            self.add(field.map(|field| field.name), shown(&status.message));
        }
    }

    /// Notes something that is wrong. Of one field the first says it.
    pub fn add(&mut self, field: Option<&'static str>, what: String) {
        let is_known = field.is_some_and(|name| self.mistake(name).is_some());
        let mistake = Mistake { field, what };
        if !is_known && !self.mistakes.contains(&mistake) {
            self.mistakes.push(mistake);
        }
    }

    /// A number of a field; none of what is empty or no number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<i64> {
        self.value(name).parse().ok()
    }
}

/// The field at a path, or the one above it that is nearest.
fn field_at(fields: &[Field], of: Of, path: &str) -> Option<&'static str> {
    let is_at = |field: &&Field| {
        let below = path.strip_prefix(field.path);
        field.of == of && below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let found = fields.iter().filter(is_at).max_by_key(|f| f.path.len());
    // Rules on the whole object are about its name: no other of our kinds' fields is outside of the spec.
    let name = || {
        let is_whole = path.is_empty() || path == "<nil>";
        let mut all = fields.iter();
        let found = all.find(|field| field.of == of && field.path == "metadata.name");
        found.filter(|_| is_whole)
    };
    found.or_else(name).map(|field| field.name)
}

/// Puts a value at a path, where there is one.
fn put(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for part in path.split('.') {
        at = &mut at[part];
    }
    *at = value;
}

/// An object of what was filled in; nothing stands in it that was not.
fn object(kind: &str, namespace: &str, fields: &[Field], of: Of, filled: &Filled) -> Value {
    let mut object = json!({"apiVersion": format!("{}/{}", api::GROUP, api::VERSION), "kind": kind,
        "metadata": {"namespace": namespace}, "spec": {}});
    for field in fields.iter().filter(|field| field.of == of) {
        let value = filled.value(field.name);
        let value = match field.input {
            _ if value.is_empty() => continue,
            Input::Number(..) => match filled.number(field.name) {
                Some(number) => json!(number),
                None => continue,
            },
            Input::Text | Input::Choice(_) => json!(value),
        };
        put(&mut object, field.path, value);
    }
    object
}

#[cfg(test)]
mod tests;
