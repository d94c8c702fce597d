//! What goes into an archive for a report of a bug, and what of it does not.
//!
//! Invariant: pure. Of objects nothing is kept that may be somebody's secret: no data of Secrets and ConfigMaps, no value
//! of an annotation or of a variable that is not known; and every line passes [`insight::text::redact`] besides.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use insight::text::{REDACTED, redact};
use serde::Serialize;
use serde_json::Value;

use crate::anonymous::Mask;

/// Annotations whose values are kept: they are Covey's and Kubernetes' own, and hold states and times.
const ANNOTATIONS: &[&str] = &[
    "covey.dev/",
    "deployment.kubernetes.io/",
    "pv.kubernetes.io/",
];
/// Variables of containers whose values are kept.
const VARIABLES: &str = "COVEY_";

/// The files of an archive, by their paths, and what is not in it.
#[derive(Debug)]
pub(crate) struct Archive {
    files: BTreeMap<String, Vec<u8>>,
    missing: BTreeMap<String, String>,
    room: usize,
    mask: Option<Mask>,
}

/// `index.json`; it only ever gains fields.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Index<'a> {
    api_version: &'static str,
    kind: &'static str,
    /// Bytes of each file.
    files: BTreeMap<&'a str, usize>,
    /// Why something is not there.
    missing: &'a BTreeMap<String, String>,
}

impl Archive {
    /// Of at most so many bytes, before they are compressed.
    pub(crate) const fn new(room: usize) -> Self {
        Self {
            files: BTreeMap::new(),
            missing: BTreeMap::new(),
            room,
            mask: None,
        }
    }

    /// The same, without names and addresses from now on.
    pub(crate) fn masked(mut self, mask: Mask) -> Self {
        self.mask = Some(mask);
        self
    }

    /// What the hashes stand for that are in the place of names; none where names are as they are.
    pub(crate) fn told(&self) -> Option<String> {
        self.mask.as_ref().map(Mask::told)
    }

    fn without_names(&self, text: &str) -> String {
        let masked = self.mask.as_ref().map(|mask| mask.text(text));
        masked.unwrap_or_else(|| text.to_owned())
    }

    /// Adds objects of one kind, without what may be secret.
    pub(crate) fn objects(&mut self, path: &str, mut objects: Vec<Value>) {
        objects.iter_mut().for_each(reduce);
        match serde_json::to_string_pretty(&objects) {
            Ok(text) => self.text(path, &text),
            Err(error) => self.lacks(path, &error.to_string()),
        }
    }

    /// Adds a text. One that does not find room is missing.
    pub(crate) fn text(&mut self, path: &str, text: &str) {
        let text = self.without_names(&redact(text));
        match self.room.checked_sub(text.len()) {
            Some(room) => {
                self.room = room;
                let path = self.without_names(path);
                self.files.insert(path, text.into_bytes());
            }
            None => self.lacks(path, "there was no room for it: a larger `--max-size`"),
        }
    }

    /// Adds a log: as much of its end as finds room, in whole lines.
    pub(crate) fn log(&mut self, path: &str, text: &str) {
        // What is put in the place of secrets may be longer than they were.
        let text = self.without_names(&redact(text));
        let mut start = text.len().saturating_sub(self.room);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        let kept = &text[start..];
        let kept = match start {
            0 => kept,
            _ => kept.split_once('\n').map_or("", |(_, whole)| whole),
        };
        self.room -= kept.len();
        if kept.len() < text.len() {
            let cut = text.len() - kept.len();
            self.lacks(
                &format!("{path}#beginning"),
                &format!("{cut} bytes found no room: a larger `--max-size`"),
            );
        }
        let path = self.without_names(path);
        self.files.insert(path, kept.as_bytes().to_vec());
    }

    /// Notes what is not there, and why.
    pub(crate) fn lacks(&mut self, path: &str, why: &str) {
        let (path, why) = (self.without_names(path), self.without_names(why));
        self.missing.insert(path, insight::text::shown(&why));
    }

    /// How many files it has, and how many are missing.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.files.len(), self.missing.len())
    }

    /// Writes it as a compressed archive below one folder: sorted, with the time of the archive, readable by nobody else.
    pub(crate) fn write(&self, folder: &str, seconds: u64, out: impl Write) -> io::Result<()> {
        let index = Index {
            api_version: "cli.covey.dev/v1",
            kind: "SysdumpIndex",
            files: self
                .files
                .iter()
                .map(|(path, text)| (path.as_str(), text.len()))
                .collect(),
            missing: &self.missing,
        };
        let index = serde_json::to_vec_pretty(&index).map_err(io::Error::other)?;
        let mut archive = tar::Builder::new(GzEncoder::new(out, Compression::default()));
        let files = self
            .files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_slice()));
        for (path, text) in [("index.json", index.as_slice())].into_iter().chain(files) {
            let mut header = tar::Header::new_gnu();
            header.set_size(u64::try_from(text.len()).map_err(io::Error::other)?);
            header.set_mode(0o600);
            header.set_mtime(seconds);
            archive.append_data(&mut header, format!("{folder}/{path}"), text)?;
        }
        archive.into_inner()?.finish()?.flush()
    }
}

/// Takes out of an object what may be secret, and what nobody reads.
fn reduce(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        let annotations = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut);
        for (name, value) in annotations.into_iter().flatten() {
            if !ANNOTATIONS.iter().any(|known| name.starts_with(known)) {
                *value = REDACTED.into();
            }
        }
    }
    if let Some(object) = object.as_object_mut() {
        for field in ["data", "stringData", "binaryData"] {
            object.remove(field);
        }
    }
    inside(object);
}

/// Variables of containers, wherever they are, and annotations of templates.
fn inside(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), &mut *value) {
                    ("env", Value::Array(all)) => all.iter_mut().for_each(variable),
                    ("template", Value::Object(_)) => reduce(value),
                    _ => inside(value),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(inside),
        _ => {}
    }
}

fn variable(variable: &mut Value) {
    let is_known = variable["name"]
        .as_str()
        .is_some_and(|name| name.starts_with(VARIABLES));
    if let Some(value) = variable.get_mut("value").filter(|_| !is_known) {
        *value = REDACTED.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::Read as _;

    const CANARY: &str = "sesame-canary";

    fn read(archive: &Archive) -> BTreeMap<String, String> {
        let mut bytes = Vec::new();
        archive.write("dump", 1_700_000_000, &mut bytes).unwrap();
        let mut read = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let entries = read.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            assert_eq!(entry.header().mode().unwrap(), 0o600);
            let path = entry.path().unwrap().display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            (path, text)
        });
        entries.collect()
    }

    #[test]
    fn nothing_that_may_be_secret_is_in_it() {
        let mut archive = Archive::new(1 << 20);
        let env = json!([{ "name": "PASSWORD", "value": CANARY }, { "name": "COVEY_LOG_FILTER", "value": "info" }]);
        let template = json!({ "metadata": { "annotations": { "example.com/key": CANARY } },
            "spec": { "initContainers": [{ "name": "a", "env": env }], "containers": [{ "name": "b", "env": env }] } });
        let object = json!({ "kind": "Deployment", "data": { "key": CANARY }, "metadata": {
            "name": "a", "managedFields": [{ "manager": CANARY }],
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": CANARY, "covey.dev/revision": "7" } },
            "spec": { "template": template } });
        archive.objects("a.json", vec![object]);
        archive.log(
            "b.log",
            &format!("Authorization: Bearer {CANARY}\nit leads\n"),
        );
        archive.lacks("c.json", &format!("token: {CANARY}"));
        let read = read(&archive);
        for (path, text) in &read {
            assert!(!text.contains(CANARY), "{path}: {text}");
        }
        let object = &read["dump/a.json"];
        assert!(object.contains("\"covey.dev/revision\": \"7\""), "{object}");
        assert!(object.contains("\"value\": \"info\""), "{object}");
        assert!(read["dump/b.log"].contains("it leads"));
        assert!(read["dump/index.json"].contains("\"c.json\""));
    }

    #[test]
    fn of_a_log_the_end_is_kept_in_whole_lines() {
        let mut archive = Archive::new(16);
        archive.log("a.log", "first line\nsecond line\n");
        archive.text("b", "too much");
        let read = read(&archive);
        assert_eq!(read["dump/a.log"], "second line\n");
        let index = &read["dump/index.json"];
        assert!(
            index.contains("a.log#beginning") && index.contains("--max-size"),
            "{index}"
        );
        let index: Value = serde_json::from_str(index).unwrap();
        assert_eq!(crate::schema::findings(&index), [""; 0], "{index:#}");
        assert!(!read.contains_key("dump/b"));
    }

    #[test]
    fn without_names_there_is_none_in_files_paths_and_reasons() {
        let mask = Mask::new(b"k", ["demo".to_owned()]);
        let mut archive = Archive::new(1 << 20).masked(mask);
        archive.objects(
            "namespaces/covey-demo-1/pods.json",
            vec![json!({"metadata": {"name": "demo"}})],
        );
        archive.log("logs/demo.log", "demo leads at 10.0.0.7\n");
        archive.lacks("demo.json", "no rights in demo");
        let read = read(&archive);
        for (path, text) in &read {
            assert!(
                !path.contains("demo") && !text.contains("demo"),
                "{path}: {text}"
            );
            assert!(!text.contains("10.0.0.7"), "{path}: {text}");
        }
        assert!(archive.told().unwrap().ends_with(" demo\n"));
    }

    #[test]
    fn the_same_is_the_same_to_the_byte() {
        let bytes = || {
            let mut archive = Archive::new(1 << 10);
            archive.text("a", "one");
            archive.text("b", "two");
            let mut bytes = Vec::new();
            archive.write("dump", 1, &mut bytes).unwrap();
            bytes
        };
        assert_eq!(bytes(), bytes());
    }
}
