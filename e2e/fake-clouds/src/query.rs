//! What stands behind the question mark, and in a form.
//!
//! Invariant: what cannot be decoded is left as it came.

/// What was asked, by name; a name may come more than once.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn read(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key), decoded(value))
        };
        Self(pairs.map(pair).collect())
    }

    /// All of it, in its order.
    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// What is counted from 1 behind a name.
    pub(crate) fn each(&self, name: &str) -> Vec<&str> {
        let numbered = (1..).map_while(|n: u32| self.get(&format!("{name}.{n}")));
        numbered.collect()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    }
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let hex = (*byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(if *byte == b'+' { b' ' } else { *byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
