// Ratings of movies by users, in stars: read from MovieLens' files, or made up. Thread safety: pure
// functions, except for the files that are read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

struct Rating {
  int64_t user = 0;
  int64_t movie = 0;
  double stars = 0;  // 0.5, 1, ... 5
  int64_t time = 0;
  // The mean of the stars that this user gives this movie, if it is known: the rest is chance. No
  // model errs by less.
  std::optional<double> expected{};
};

struct Ratings {
  std::vector<Rating> all;                             // in the order of their times
  std::map<int64_t, std::vector<std::string>> genres;  // of each movie that was rated
};

// Reads ratings.csv (userId,movieId,rating,timestamp) and movies.csv (movieId,title,genres; genres
// are separated by "|"). A movie that is not in movies.csv has no genres. Throws the errors of
// data::csv().
Ratings read_ratings(const std::string& data_dir);

// Makes up 500 users who rate 80 of 200 movies each. A user has a mood and tastes, a movie a
// quality and tastes that follow mostly from its genres; how well the tastes fit adds to mood and
// quality. Chance, of 0.6 stars, adds to that, and the result is rounded to half a star. The same
// seed makes the same ratings everywhere.
Ratings make_ratings(uint64_t seed);
