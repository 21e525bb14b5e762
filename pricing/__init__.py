"""What can be bought, where, on what terms and at what price. A leaf: knows neither `planner` nor `workers`."""
