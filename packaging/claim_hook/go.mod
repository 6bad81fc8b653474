module claim-hook

go 1.24
