module tidegate

go 1.26
