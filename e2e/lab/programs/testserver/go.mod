module covey.dev/lab/testserver

go 1.25.0
