//! What came of one probe.
//!
//! Invariant: a closed set, which is the label `result`.

use std::error::Error;
use std::io;

use kit_client::deadline::TimedOut;

/// What came of one probe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It answered as it should.
    Ok,
    /// It said that it cannot.
    Http5xx,
    /// It said something else.
    HttpOther,
    /// It did not answer in time.
    Timeout,
    /// Nobody was there, or the connection ended.
    Connect,
    /// One side did not believe the other's certificate.
    Tls,
    /// It does not know the operator, or refuses it.
    Auth,
}

impl Outcome {
    /// All of them, in the order of the labels.
    pub const ALL: [Self; 7] = [
        Self::Ok,
        Self::Http5xx,
        Self::HttpOther,
        Self::Timeout,
        Self::Connect,
        Self::Tls,
        Self::Auth,
    ];

    /// The label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Http5xx => "http_5xx",
            Self::HttpOther => "http_other",
            Self::Timeout => "timeout",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Auth => "auth",
        }
    }

    /// That of an error.
    #[must_use]
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                401 | 403 => Self::Auth,
                code if code >= 500 => Self::Http5xx,
                _ => Self::HttpOther,
            },
            // It answered, and not as an API server does.
            kube::Error::SerdeError(_) => Self::HttpOther,
            other => Self::of_causes(other),
        }
    }

    fn of_causes(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if error.is::<TimedOut>() || error.is::<tokio::time::error::Elapsed>() {
                return Self::Timeout;
            }
            if error.is::<rustls::Error>() {
                return Self::Tls;
            }
            if let Some(io) = error.downcast_ref::<io::Error>() {
                if io.kind() == io::ErrorKind::TimedOut {
                    return Self::Timeout;
                }
                // What an io::Error holds is not among its causes.
                if io.get_ref().is_some_and(|held| held.is::<rustls::Error>()) {
                    return Self::Tls;
                }
            }
            cause = error.source();
        }
        Self::Connect
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn said(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status {
            code,
            ..Status::default()
        }))
    }

    fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> kube::Error {
        kube::Error::Service(error.into())
    }

    #[test]
    fn every_error_has_its_label() {
        let tls = || rustls::Error::General("no".to_owned());
        let table = [
            (said(401), "auth"),
            (said(403), "auth"),
            (said(429), "http_other"),
            (said(503), "http_5xx"),
            (failed(TimedOut), "timeout"),
            (failed(io::Error::from(io::ErrorKind::TimedOut)), "timeout"),
            (
                failed(io::Error::from(io::ErrorKind::ConnectionRefused)),
                "connect",
            ),
            (failed(tls()), "tls"),
            (failed(io::Error::other(tls())), "tls"),
            (failed("broken"), "connect"),
        ];
        for (error, label) in table {
            assert_eq!(Outcome::of(&error).label(), label, "{error:?}");
        }
    }
}
