//! `covey get`: lists, as the API server makes tables of them.
//!
//! Invariant: columns are those of kubectl, because the server makes them.

use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, Resource as _};
use serde_json::{Value, json};

use super::follow::{Followed, follow};
use crate::args::read::Get;
use crate::args::{Format, Global};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::kinds::name_of;
use crate::output::{result, say, structured, without_managers};
use crate::sorting::{self, By, Key};
use crate::table::listed as table;
use crate::terminal::fitted;
use insight_read::request::{self, Form, PAGE, PAGES, Unread};
use insight_read::table::ServerTable;

pub(super) async fn run(global: &Global, get: &Get) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let resource = get.kind.resource();
    let namespace = Some(connection.namespace.as_str());
    let namespace = namespace.filter(|_| get.kind.is_namespaced() && !get.all_namespaces);
    let path = DynamicObject::url_path(&resource, namespace);
    let act = format!("get {}", resource.plural);
    let asked = Asked {
        client: &connection.client,
        path,
        get,
        act,
    };
    if get.watch {
        return asked.follow(global, &resource).await;
    }
    match global.output {
        Format::Json | Format::Yaml => {
            let objects = asked.objects().await?;
            let objects = in_order_of(objects, get)?;
            result(&structured(&listed(objects, get), global.output)?)?;
        }
        form => {
            let table = asked.table().await?;
            if table.rows.is_empty() && form != Format::Name {
                let place = namespace.map_or(String::new(), |n| format!(" in {n}"));
                if !global.quiet {
                    say(&format!("no {}{place}", resource.plural));
                }
                return Ok(Exit::Done);
            }
            let text = written(&table, &resource, get, global);
            result(&fitted(text, global))?;
        }
    }
    Ok(Exit::Done)
}

fn written(table: &ServerTable, resource: &ApiResource, get: &Get, global: &Global) -> String {
    if global.output == Format::Name {
        let names = table.rows.iter().map(|row| &row.object.metadata.name);
        return names.map(|name| name_of(resource, name) + "\n").collect();
    }
    let has_namespace = get.all_namespaces && get.kind.is_namespaced();
    let lines = table.shown(global.output == Format::Wide, has_namespace);
    self::table(lines, global.no_headers)
}

/// Objects in the order that was asked for.
fn in_order_of(objects: Vec<Value>, get: &Get) -> Result<Vec<Value>, Failure> {
    match &get.sort_by {
        None => Ok(objects),
        Some(By::Field(field)) => {
            let keys = objects.iter().map(|one| Key::of(one.pointer(field)));
            let keys = keys.collect();
            Ok(sorting::ordered(objects, keys))
        }
        Some(By::Column(name)) => {
            let what = format!("objects have no columns, and so no {name}");
            let mend = "name a field, as `--sort-by .metadata.name`";
            Err(Failure::new(Exit::Usage, &what, mend))
        }
    }
}

/// One object as itself, several as a list; without what only the API server needs.
fn listed(mut objects: Vec<Value>, get: &Get) -> Value {
    objects.iter_mut().for_each(without_managers);
    match (get.names.len(), objects.pop()) {
        (1, Some(one)) => one,
        (_, last) => {
            objects.extend(last);
            json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects})
        }
    }
}

struct Asked<'a> {
    client: &'a Client,
    path: String,
    get: &'a Get,
    act: String,
}

impl Asked<'_> {
    /// The table, in the order that was asked for.
    async fn table(&self) -> Result<ServerTable, Failure> {
        match &self.get.sort_by {
            None => Ok(self.rows(Form::Table, &[]).await?.0),
            Some(By::Column(name)) => {
                let (table, _) = self.rows(Form::Table, &[]).await?;
                let keys = sorting::column(&table, name).ok_or_else(|| {
                    let all = table.column_definitions.iter();
                    let all: Vec<_> = all.map(|one| one.name.to_uppercase()).collect();
                    let what = format!("there is no column {name}");
                    let mend = format!(
                        "name one of {}, or a field as .spec.replicas",
                        all.join(", ")
                    );
                    Failure::new(Exit::Usage, &what, &mend)
                });
                // Of a list without rows the API may give no columns either.
                match table.rows.is_empty() {
                    true => Ok(table),
                    false => Ok(in_order(table, keys?)),
                }
            }
            Some(By::Field(field)) => {
                let (table, keys) = self.rows(Form::WholeTable, &[field]).await?;
                Ok(in_order(table, keys))
            }
        }
    }

    /// All rows; of each one the value of a field, where there is one.
    async fn rows(
        &self,
        form: Form,
        fields: &[&String],
    ) -> Result<(ServerTable, Vec<Key>), Failure> {
        let failed = |error: &kube::Error| Failure::of(&self.act, error);
        let (mut all, mut keys) = (ServerTable::default(), Vec::new());
        let form = match &self.get.cluster {
            Some(_) => Form::WholeTable,
            None => form,
        };
        let mut add = |mut page: Value| -> Result<Option<String>, Failure> {
            if let Some(rows) = page["rows"].as_array_mut() {
                rows.retain(|row| is_of(&row["object"], self.get.cluster.as_deref()));
            }
            let rows = page["rows"].as_array().into_iter().flatten();
            for field in fields {
                let of = |row: &Value| Key::of(row["object"].pointer(field));
                keys.extend(rows.clone().map(of));
            }
            let page: ServerTable = serde_json::from_value(page)
                .map_err(|error| failed(&kube::Error::SerdeError(error)))?;
            let next = page.metadata.next.clone();
            all.append(page);
            Ok(next.filter(|next| !next.is_empty()))
        };
        for name in &self.get.names {
            let one = request::get(self.client, &self.path, name, form).await;
            add(one.map_err(|error| failed(&error))?)?;
        }
        if !self.get.names.is_empty() {
            return Ok((all, keys));
        }
        let mut params = self.params();
        for _ in 0..PAGES {
            let page = request::page(self.client, &self.path, &params, form).await;
            match add(page.map_err(|error| failed(&error))?)? {
                Some(next) => params = params.continue_token(&next),
                None => return Ok((all, keys)),
            }
        }
        Err(Failure::unread(&self.act, &Unread::TooMany))
    }

    /// What there is, and then what changes.
    async fn follow(&self, global: &Global, resource: &ApiResource) -> Result<Exit, Failure> {
        let name = match self.get.names.as_slice() {
            [] => None,
            [one] => Some(one.as_str()),
            _ => {
                let what = "one object is followed, or all";
                let mend = "name one, or use `--selector`";
                return Err(Failure::new(Exit::Usage, what, mend));
            }
        };
        let followed = Followed {
            client: self.client,
            path: &self.path,
            name,
            labels: self.get.selector.as_deref(),
            fields: self.get.field_selector.as_deref(),
            act: &self.act,
            resource,
            has_namespace: self.get.all_namespaces && self.get.kind.is_namespaced(),
        };
        follow(global, &followed).await
    }

    async fn objects(&self) -> Result<Vec<Value>, Failure> {
        let failed = |error: &kube::Error| Failure::of(&self.act, error);
        let mut all = Vec::new();
        for name in &self.get.names {
            let one = request::get(self.client, &self.path, name, Form::Objects).await;
            all.push(one.map_err(|error| failed(&error))?);
        }
        if !self.get.names.is_empty() {
            return Ok(all);
        }
        let mut params = self.params();
        for _ in 0..PAGES {
            let page = request::page(self.client, &self.path, &params, Form::Objects).await;
            let mut page: Value = page.map_err(|error| failed(&error))?;
            let (version, kind) = (page["apiVersion"].clone(), page["kind"].clone());
            let kind = kind
                .as_str()
                .map(|kind| kind.trim_end_matches("List").to_owned());
            let next = page["metadata"]["continue"].as_str().map(str::to_owned);
            if let Value::Array(items) = page["items"].take() {
                let items = items.into_iter();
                let items = items.filter(|item| is_of(item, self.get.cluster.as_deref()));
                // Items of a list do not say what they are.
                all.extend(items.map(|mut item| {
                    item["apiVersion"] = version.clone();
                    item["kind"] = json!(kind);
                    item
                }));
            }
            match next.filter(|next| !next.is_empty()) {
                Some(next) => params = params.continue_token(&next),
                None => return Ok(all),
            }
        }
        Err(Failure::unread(&self.act, &Unread::TooMany))
    }

    fn params(&self) -> ListParams {
        let params = ListParams::default().limit(PAGE);
        let params = match &self.get.selector {
            Some(selector) => params.labels(selector),
            None => params,
        };
        match &self.get.field_selector {
            Some(selector) => params.fields(selector),
            None => params,
        }
    }
}

fn in_order(mut table: ServerTable, keys: Vec<Key>) -> ServerTable {
    table.rows = sorting::ordered(table.rows, keys);
    table
}

/// Whether an object belongs to the tenant cluster, where one was named.
fn is_of(object: &Value, cluster: Option<&str>) -> bool {
    cluster.is_none_or(|name| object["spec"]["clusterName"] == name)
}
