//! Installs the process's log subscriber and a panic hook that logs.
//!
//! Invariant: every line of a binary goes through `tracing`, so that a pod's log is all JSON.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::TryInitError;
use tracing_subscriber::{Layer, Registry, layer::SubscriberExt, util::SubscriberInitExt};

use crate::args::{LogArgs, LogFormat};

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter does not parse.
    #[error("log filter {filter:?} is not valid; try \"info\" or \"info,kube=warn\"")]
    Filter {
        /// As given.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: ParseError,
    },
    /// A subscriber is installed already.
    #[error("logging is set up twice")]
    Twice(#[source] TryInitError),
}

/// Logs to standard error, as the arguments say, and logs panics too.
///
/// # Errors
/// A filter that does not parse; a second call.
pub fn init(args: &LogArgs) -> Result<(), Error> {
    let LogArgs { filter, format } = args;
    let layer = layer(filter, *format, io::stderr)?;
    Registry::default()
        .with(layer)
        .try_init()
        .map_err(Error::Twice)?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let text = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(panic.place = %place, "panic: {text}");
    }));
    Ok(())
}

type DynLayer = Box<dyn Layer<Registry> + Send + Sync>;

fn layer<W>(filter: &str, format: LogFormat, writer: W) -> Result<DynLayer, Error>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(filter).map_err(|source| Error::Filter {
        filter: filter.to_owned(),
        source,
    })?;
    let plain = tracing_subscriber::fmt::layer().with_writer(writer);
    Ok(match format {
        LogFormat::Json => plain.json().flatten_event(true).with_filter(filter).boxed(),
        LogFormat::Text => plain.with_ansi(false).with_filter(filter).boxed(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(filter: &str, format: LogFormat) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = layer(filter, format, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(Registry::default().with(layer), || {
            tracing::info!(tenant.name = "demo", "tenant demo is ready");
            tracing::debug!("too fine");
        });
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_lines_carry_dotted_fields_at_the_top() {
        let line = logged("info", LogFormat::Json);
        let event: serde_json::Value = serde_json::from_str(&line).expect("exactly one line");
        assert_eq!(event["tenant.name"], "demo");
        assert_eq!(event["message"], "tenant demo is ready");
        assert_eq!(event["level"], "INFO");
    }

    #[test]
    fn text_has_no_colours_and_the_filter_holds() {
        let text = logged("info", LogFormat::Text);
        assert!(
            text.contains("tenant demo is ready") && !text.contains('\u{1b}'),
            "{text}"
        );
        assert!(!text.contains("too fine"), "{text}");
        assert_eq!(logged("off", LogFormat::Text), "");
    }

    #[test]
    fn a_bad_filter_is_refused_with_an_example() {
        let error = layer("operator=loud", LogFormat::Json, io::stderr)
            .err()
            .expect("an error");
        assert!(error.to_string().contains("operator=loud"), "{error}");
    }
}
