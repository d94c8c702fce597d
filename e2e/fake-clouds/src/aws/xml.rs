//! What answers look like: XML, and errors of either service.
//!
//! Invariant: an error has the form of the documentation.

use crate::answer::Answer;

/// An element with what is in it.
pub(super) fn element(name: &str, inner: &str) -> String {
    format!("<{name}>{inner}</{name}>")
}

/// An element with a text.
pub(super) fn text(name: &str, value: &str) -> String {
    let value = value.replace('&', "&amp;").replace('<', "&lt;");
    element(name, &value.replace('>', "&gt;"))
}

/// An answer to a call of EC2.
pub(super) fn done(action: &str, inner: &str) -> Answer {
    let name = format!("{action}Response");
    let xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{name} xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\
         <requestId>req-1</requestId>{inner}</{name}>"
    );
    Answer::xml(200, xml).with("x-amzn-requestid", "req-1")
}

/// An answer to a call of the Security Token Service.
pub(super) fn granted(action: &str, inner: &str) -> Answer {
    let name = format!("{action}Response");
    let inner = element(&format!("{action}Result"), inner);
    let xml =
        format!("<{name} xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">{inner}</{name}>");
    Answer::xml(200, xml).with("x-amzn-requestid", "req-1")
}

/// An error of EC2.
pub(super) fn refused(status: u16, code: &str, message: &str) -> Answer {
    let error = text("Code", code) + &text("Message", message);
    let errors = element("Errors", &element("Error", &error));
    let xml = element("Response", &(errors + &text("RequestID", "req-1")));
    Answer::xml(status, xml).with("x-amzn-requestid", "req-1")
}

/// An error of the Security Token Service.
pub(super) fn not_granted(status: u16, code: &str, message: &str) -> Answer {
    let error = text("Type", "Sender") + &text("Code", code) + &text("Message", message);
    let xml = element(
        "ErrorResponse",
        &(element("Error", &error) + &text("RequestId", "req-1")),
    );
    Answer::xml(status, xml).with("x-amzn-requestid", "req-1")
}
