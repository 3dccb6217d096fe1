#include "examples/movie_ratings/ratings.h"

#include <muster/muster.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <string_view>

using namespace muster;

namespace {

constexpr double kLeast = 0.5, kMost = 5, kHalfStar = 0.5;

std::vector<std::string> split_genres(std::string_view text) {
  std::vector<std::string> genres;
  while (!text.empty()) {
    const size_t bar = text.find('|');
    if (bar != 0) genres.emplace_back(text.substr(0, bar));
    text.remove_prefix(bar == text.npos ? text.size() : bar + 1);
  }
  return genres;
}

// Calls fn(batch) for all rows of a file.
void for_rows(const std::string& file, const std::vector<data::CsvColumn>& columns,
              const std::function<void(const Element& batch)>& fn) {
  const data::CsvOptions options{.columns = columns};
  const auto batches =
      Dataset::from_files({file}, data::csv_format(options)).batch(10000).iterator();
  while (const auto batch = batches->next()) fn(*batch);
}

// --- a world of tastes ---

constexpr int64_t kUsers = 500, kMovies = 200, kRatingsOfUser = 80;
constexpr double kChance = 0.6;
constexpr std::array<const char*, 8> kGenres{"Action",  "Animation", "Comedy", "Crime",
                                             "Fantasy", "Romance",   "War",    "Western"};
using Taste = std::array<double, 3>;

Taste random_taste(Random& random, double deviation) {
  Taste taste;
  for (double& number : taste) number = deviation * random.normal();
  return taste;
}

struct Movie {
  std::vector<std::string> genres;
  double quality = 0;
  Taste taste{};
};

std::vector<Movie> make_movies(RandomKey key) {
  std::array<Taste, kGenres.size()> tastes;
  Random of_genres(key.derive(id_of("genres")));
  for (Taste& taste : tastes) taste = random_taste(of_genres, 1);
  std::vector<Movie> movies(kMovies);
  for (int64_t i = 0; i < kMovies; ++i) {
    Movie& movie = movies[i];
    Random random(key.derive(id_of("movie")).derive(i));
    movie.quality = 0.4 * random.normal();
    movie.taste = random_taste(random, 0.4);
    std::set<uint64_t> genres;
    while (genres.size() < 1 + static_cast<size_t>(i % 2))
      genres.insert(random.uniform_below(kGenres.size()));
    for (const uint64_t genre : genres) {
      movie.genres.emplace_back(kGenres[genre]);
      for (size_t k = 0; k < movie.taste.size(); ++k)
        movie.taste[k] += tastes[genre][k] / static_cast<double>(genres.size());
    }
  }
  return movies;
}

double stars_of(double liking) {
  return std::clamp(std::round(liking / kHalfStar) * kHalfStar, kLeast, kMost);
}

// The mean of stars_of(liking + chance).
double expected_stars(double liking) {
  const auto below = [&](double stars) {
    return 0.5 * std::erfc((liking - stars) / (kChance * std::sqrt(2.0)));
  };
  double mean = kLeast;  // each half star counts with the probability that the rating reaches it
  for (double stars = kLeast + kHalfStar; stars <= kMost; stars += kHalfStar)
    mean += kHalfStar * (1 - below(stars - kHalfStar / 2));
  return mean;
}

}  // namespace

Ratings read_ratings(const std::string& data_dir) {
  Ratings ratings;
  for_rows(data_dir + "/ratings.csv",
           {{.name = "userId", .kind = data::CsvKind::kInt64},
            {.name = "movieId", .kind = data::CsvKind::kInt64},
            {.name = "rating", .kind = data::CsvKind::kFloat64},
            {.name = "timestamp", .kind = data::CsvKind::kInt64}},
           [&](const Element& batch) {
             const auto column = [&](const char* name) { return batch.at(name).value().tensor(); };
             const Tensor users = column("userId"), movies = column("movieId");
             const Tensor stars = column("rating"), times = column("timestamp");
             for (int64_t i = 0; i < batch.rows(); ++i) {
               ratings.all.push_back({.user = users.data_ptr<int64_t>()[i],
                                      .movie = movies.data_ptr<int64_t>()[i],
                                      .stars = stars.data_ptr<double>()[i],
                                      .time = times.data_ptr<int64_t>()[i]});
               ratings.genres[ratings.all.back().movie];
             }
           });
  std::ranges::stable_sort(ratings.all, {}, &Rating::time);
  for_rows(data_dir + "/movies.csv",
           {{.name = "movieId", .kind = data::CsvKind::kInt64},
            {.name = "genres", .kind = data::CsvKind::kString, .missing = ""}},
           [&](const Element& batch) {
             const Tensor movies = batch.at("movieId").value().tensor();
             const Strings genres = batch.at("genres").value().strings();
             for (int64_t i = 0; i < batch.rows(); ++i) {
               const auto rated = ratings.genres.find(movies.data_ptr<int64_t>()[i]);
               if (rated != ratings.genres.end()) rated->second = split_genres(genres[i]);
             }
           });
  return ratings;
}

Ratings make_ratings(uint64_t seed) {
  const RandomKey key = derive_key(seed, {id_of("movie_ratings")});
  const std::vector<Movie> movies = make_movies(key);
  Ratings ratings;
  for (int64_t i = 0; i < kMovies; ++i) ratings.genres[i + 1] = movies[i].genres;
  for (int64_t user = 0; user < kUsers; ++user) {
    Random random(key.derive(id_of("user")).derive(user));
    const double mood = 0.3 * random.normal();
    const Taste taste = random_taste(random, 0.4);
    std::set<int64_t> seen;
    while (seen.size() < kRatingsOfUser) {
      // Some movies are seen by many, some by few.
      const auto i = static_cast<int64_t>(kMovies * std::pow(random.uniform(), 1.5));
      if (!seen.insert(i).second) continue;
      double liking = 3.5 + mood + movies[i].quality;
      for (size_t k = 0; k < taste.size(); ++k) liking += taste[k] * movies[i].taste[k];
      ratings.all.push_back({.user = user + 1,
                             .movie = i + 1,
                             .stars = stars_of(liking + kChance * random.normal()),
                             .time = static_cast<int64_t>(seen.size()) * kUsers + user,
                             .expected = expected_stars(liking)});
    }
  }
  std::ranges::stable_sort(ratings.all, {}, &Rating::time);
  return ratings;
}
